"""The pane log: what rounds added to the panes, and its compaction."""
