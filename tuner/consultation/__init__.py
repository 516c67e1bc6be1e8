"""From a configuration and what is said beside it to an answer: the one way that every command shares."""
