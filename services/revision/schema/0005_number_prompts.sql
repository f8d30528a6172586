-- run: outside a transaction
CALL conversation.number_prompts();
