# Shortens the output of `go test -v` to one line a client and way to send, all
# that failed, and what was not tested. It exits 1 if the tests failed.
/^ *=== / { next }
/^    --- (PASS|SKIP)/ || /^        --- PASS/ { print; fflush(); next }
/--- PASS/ || /--- SKIP/ || /^ *$/ { if (/^--- /) print; next }
/NOT TESTED/ { missing[++skipped] = $0 }
/^(FAIL|panic:)/ { failed = 1 }
{ print }
END {
	for (i = 1; i <= skipped; i++) print missing[i]
	exit failed
}
