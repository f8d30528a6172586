"""What the services of docker-compose.yml are started and looked after with."""
