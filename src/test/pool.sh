# Shared by check.sh: jobs that run some at a time, in an order that keeps all
# processors busy.
#
# src/test/times has a line "SECONDS JOB" for each job, as a run of everything
# on two idle processors has found it (build/check-results/times is of the same
# form: copy it after such a run).  The times choose the order and the parts,
# and say beforehand how long a run takes; no test fails by them.  A test that does
# less in make check (lsm_short()) has another line, JOB/short, and so has a job
# that does less in make check-quick.

times=$top/src/test/times
# of a job that has no line yet
unknown_seconds=30

# job_form JOB: its name in src/test/times
job_form() {
	if { [ "${LSM_TIER:-}" = check ] && grep -qs 'lsm_short()' "$top/src/test/tap/t/$1.pl"; } ||
		{ [ "${LSM_TIER:-}" = quick ] && grep -q " $1/short$" "$times"; }; then
		echo "$1/short"
	else
		echo "$1"
	fi
}

# job_seconds <jobs: "SECONDS JOB" of each
job_seconds() {
	local job
	while read -r job; do
		echo "$(job_form "$job") $job"
	done | awk -v unknown=$unknown_seconds 'NR == FNR { took[$2] = $1; next } { print ($1 in took ? took[$1] : unknown), $2 }' \
		"$times" -
}

# jobs_of_part I/N <"SECONDS JOB" lines: those of part I of N, of about the same
# time each: the longest one that is left goes to the part that has least.  The
# same lines make the same parts anywhere.
jobs_of_part() {
	sort -k1,1nr -k2,2 | awk -v mine="${1%/*}" -v parts="${1#*/}" '
		{
			least = 1
			for (i = 2; i <= parts; i++)
				if (sum[i] < sum[least])
					least = i
			sum[least] += $1
			if (least == mine)
				print
		}'
}

# jobs_from N <"SECONDS JOB" lines: in the order of their names, beginning with the N-th
jobs_from() {
	sort -k2,2 | awk -v from="$1" '
		{ line[NR] = $0 }
		END {
			for (i = 0; i < NR; i++)
				print line[(from + i) % NR + 1]
		}'
}

# jobs_in_order <jobs: those of LSM_PART, the longest ones first; or from LSM_BEGIN on
jobs_in_order() {
	if [ -n "${LSM_PART:-}" ]; then
		job_seconds | jobs_of_part "$LSM_PART"
	elif [ -n "${LSM_BEGIN:-}" ]; then
		job_seconds | jobs_from "$LSM_BEGIN"
	else
		job_seconds | sort -k1,1nr -k2,2
	fi
}

# run_jobs AT_A_TIME <"SECONDS JOB" lines: calls job_run JOB for each in the background and
# job_collect JOB when it has ended.  With LSM_UNTIL (seconds since 1970) a job that would
# end later is left out, and is counted in $left_out.
left_out=0
run_jobs() {
	local at_a_time=$1 seconds name n
	local -A running=()
	local -a jobs
	mapfile -t jobs
	printf '%s\n' "${jobs[@]}" | awk -v n="$at_a_time" '
		{ sum += $1; if ($1 > longest) longest = $1 }
		END { t = sum / n > longest ? sum / n : longest; printf "# %d jobs, %d at a time: about %d minutes on an idle machine\n", NR, n, (t + 59) / 60 }'
	for n in "${!jobs[@]}"; do
		read -r seconds name <<<"${jobs[$n]}"
		[ -n "$name" ] || continue
		while [ ${#running[@]} -ge "$at_a_time" ]; do
			job_wait
		done
		if [ -n "${LSM_UNTIL:-}" ] && [ $(($(date +%s) + seconds)) -gt "$LSM_UNTIL" ]; then
			echo "# left out, $seconds s do not fit: $name"
			left_out=$((left_out + 1))
			continue
		fi
		job_run "$name" &
		running[$!]=$name
	done
	while [ ${#running[@]} -gt 0 ]; do
		job_wait
	done
}

# one of $running has ended, of the caller
job_wait() {
	local pid
	wait -n -p pid
	job_collect "${running[$pid]}"
	unset "running[$pid]"
}
