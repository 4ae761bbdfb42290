"""What is compared. Each method is a function from a Problem to an Answer."""
