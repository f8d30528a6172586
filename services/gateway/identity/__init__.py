"""Who is asking: accounts, credentials, and what ends them."""
