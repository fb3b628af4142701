"""What people see of a guarantee: reports, pictures, and the themes that they are drawn in."""
