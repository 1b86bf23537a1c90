"""What people look at: charts, and one page of HTML that refers to nothing outside of itself."""
