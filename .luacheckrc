-- For the joined scripts: `.ci/join_scripts.py` writes them.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
max_line_length = 240 -- a joined library is opened by a line with all that it exports
ignore = {
  "211", -- unused local: a library is joined as a whole
}
