#!/bin/sh
# Counts the code lines of the product by top folder: the Go and Lua files that git
# tracks, without tests, testdata, the store suite, sandbox, demo, bench, ops, clients,
# examples and docs, and without blank lines and lines that are only a comment. The
# last column is comment lines for each 100 lines of code. Run it in the project's root.
git ls-files '*.go' '*.lua' |
	grep -vE '_test\.go$|(^|/)testdata/|^(tests|store/storetest|sandbox|demo|bench|ops|clients|examples|docs)/' |
	while read -r file; do
		top=${file%%/*}
		[ "$top" = "$file" ] && top=.
		awk -v top="$top" '
			/^[[:space:]]*$/ { next }
			/^[[:space:]]*(\/\/|--)/ { comments++; next }
			{ lines++ }
			END { print top, lines + 0, comments + 0 }' "$file"
	done |
	awk '
		{ lines[$1] += $2; comments[$1] += $3; files[$1]++; all += $2; said += $3; n++ }
		END {
			for (top in lines) {
				percent = 100 * comments[top] / (lines[top] ? lines[top] : 1)
				printf "%-14s %6d lines %4d files %4d\n", top, lines[top], files[top], percent | "sort"
			}
			close("sort")
			printf "%-14s %6d lines %4d files %4d\n", "all", all, n, 100 * said / all
		}'
