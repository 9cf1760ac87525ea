"""What a site's filters are, and what their answers mean.  Nothing here runs one."""
