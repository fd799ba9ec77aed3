"""What a production install needs, and scripts that start real services here."""
