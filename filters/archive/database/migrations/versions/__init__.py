"""The steps, in the order that their ``down_revision`` says. A step that was released is never changed."""
