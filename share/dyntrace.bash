# Completion of dyntrace for bash: `dyntrace help --complete` gives the candidates.
_dyntrace() {
	local line=${COMP_LINE:0:COMP_POINT} words current candidate
	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	current=${words[-1]}
	COMPREPLY=()
	while IFS= read -r candidate; do
		# Where a colon ends a word, readline replaces only the part behind it.
		[[ $current == *:* && $COMP_WORDBREAKS == *:* ]] && candidate=${candidate#"${current%"${current##*:}"}"}
		# A name of C++ is no redirection, and that of a foreign program no command.
		[[ $candidate == *[\<\>\(\)\ \;\&\|\$\`\'\"\\\*\!]* ]] && printf -v candidate %q "$candidate"
		COMPREPLY+=("$candidate")
	done < <(dyntrace help --complete "${words[@]:1}" 2>/dev/null)
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace
}
complete -o default -F _dyntrace dyntrace
