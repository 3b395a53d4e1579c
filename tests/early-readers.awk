# Prints each pipe in shell scripts that leads into a program which may stop
# before it has read everything, as FILE:LINE: PROGRAM, and fails if there is
# one. The variable readers lists the programs that always read to the end.
# tests/lint-shell.sh says what for.
BEGIN { split(readers, names); for (i in names) whole[names[i]] = 1 }

FNR == 1 { text = "" }
/^[ \t]*#/ { next }
{
	if (text == "") line = FNR
	text = text $0
	if (sub(/\\[ \t]*$/, " ", text) || text ~ /\|[ \t]*$/) next # goes on in the next line

	gsub(/'[^']*'/, "''", text)
	sub(/^[ \t]*[^ \t()|]+(\|[^ \t()|]+)+\)/, "", text) # a|b) of a case
	gsub(/\|\|/, ";", text); gsub(/>\|/, ">", text); gsub(/\|&/, "|", text)
	parts = split(text, part, "|")
	for (i = 2; i <= parts; i++) {
		program = part[i]
		while (sub(/^[ \t]*([A-Za-z_]+=[^ \t]*|command|env|exec)[ \t]+/, "", program)) {}
		sub(/^[ \t]*/, "", program); sub(/[ \t;&)`"].*/, "", program)
		if (!(program in whole)) { print FILENAME ":" line ": " program; bad = 1 }
	}
	text = ""
}
END { exit bad }
