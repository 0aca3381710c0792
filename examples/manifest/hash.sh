#!/bin/sh
# The command of `redislease exec`: hashes the file that the payload {"path": BASE64} names, below the directory $1.
# What it prints becomes the task's result; if a step fails, the task does.
set -eu

IFS= read -r payload
encoded=${payload#*'"path":"'}
encoded=${encoded%%'"'*}
# The x keeps newlines at the end of a name, which $(...) would drop.
path=$(printf '%s' "$encoded" | base64 -d && printf x)
sum=$(sha256sum <"$1/${path%x}")
printf '{"sha256":"%s"}\n' "${sum%% *}"
