#!/bin/bash
# make format [FILES="..."]: clang-format, C by src/.clang-format and C++ by
# src/sst/.clang-format.  Only lines that differ from HEAD (or FORMAT_BASE) are
# formatted, in files that git knows; files that are named, as a whole.
#
#   PGINDENT=/path/pgindent   formats the named C files instead
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

c=file:src/.clang-format
cxx=file:src/sst/.clang-format

if [ $# -gt 0 ]; then
	for file in "$@"; do
		case $file in
			src/sst/*.h | *.cc) clang-format -i --style="$cxx" "$file" || exit 1 ;;
			*.c | *.h)
				if [ -n "${PGINDENT:-}" ]; then
					"$PGINDENT" "$file" || exit 1
				else
					clang-format -i --style="$c" "$file" || exit 1
				fi
				;;
			*)
				echo "format.sh: \"$file\" is neither C nor C++" >&2
				exit 1
				;;
		esac
	done
	exit 0
fi

# changed STYLE EXTENSIONS PATH...: exit code 1 of git clang-format says that
# something was changed
changed() {
	local style=$1 extensions=$2
	shift 2
	git clang-format --force --style="$style" --extensions "$extensions" \
		"${FORMAT_BASE:-HEAD}" -- "$@"
	[ $? -le 1 ]
}
changed "$cxx" cc src bench && changed "$cxx" h src/sst &&
	changed "$c" c,h src bench ':!src/sst'
