"""What `kandev-conversation doctor` looks at: facts that are gathered, and findings that are judged from them."""
