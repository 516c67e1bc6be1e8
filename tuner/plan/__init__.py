"""What a job could be: how far it carries as it is, and what would carry it further."""
