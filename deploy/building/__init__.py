"""What deploy/build is made of: the source of one commit, the wheel, the wheelhouse, their bill of materials."""
