"""What `make bench` runs: programs that print "NAME VALUE UNIT", side by side and alternately."""
