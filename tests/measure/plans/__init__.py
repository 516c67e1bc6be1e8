"""Plans of launches beside what advice says of them and beside the layouts that they were published with."""
