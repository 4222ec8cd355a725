"""What devices can reach at most: data sheets, and the rows that a user gives."""
