-- run: outside a transaction
CALL conversation.give_revision_rows();
CALL conversation.number_prompts();
