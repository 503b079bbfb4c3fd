"""How an exercise's headings are read: the title of its unit, and a task with its number, its title and its points."""

import re

UNIT = re.compile(r"^# (?:Exercise )?\d\d · (.+)$", re.MULTILINE)
TASK = re.compile(r"^## (?:Task )?(\d+) · (.+?) \(\d+ points?\)$", re.MULTILINE)
