#!/bin/sh
# two-hosts.sh - many machines, one trace: each machine streams its LTTng events to one relay daemon, and one reader
# sees all of them, merged by time.
#
# On the collecting machine:
#
#	lttng-relayd                                    # ports 5342 and 5343; 5344 for live readers
#
# On each traced machine, RELAY being the collecting machine's name or address:
#
#	sh two-hosts.sh RELAY PID FUNCTION [NAME]       # until Ctrl-C
#
# Again on the first machine, during recording or afterwards:
#
#	babeltrace2 ~/lttng-traces/*                    # events of all hosts
#	babeltrace2 --input-format=lttng-live net://localhost:5344                    # list of hosts
#	babeltrace2 --input-format=lttng-live net://localhost:5344/host/HOST/dyntrace # one host, live
#
# Each machine has its own clock: synchronise them by NTP or PTP.
set -eu

if [ $# -lt 3 ]; then
	sed -n 's/^#	//p' "$0" >&2
	exit 2
fi
relay=$1 pid=$2 function=$3 name=${4:-$3}
session=${DYNTRACE_SESSION:-dyntrace}

lttng create "$session" ${DYNTRACE_LIVE:+"--live=$DYNTRACE_LIVE"} --set-url="net://$relay"
# Own buffers: a process killed in the middle of an event spoils buffers that it shares with others.
lttng enable-channel --userspace --session="$session" --buffers-pid channel
lttng enable-event --userspace --session="$session" --channel=channel "dyntrace:$name*"
lttng add-context --userspace --session="$session" --type=vpid --type=vtid
lttng start "$session"
trap 'lttng destroy "$session"' EXIT
trap 'exit 130' INT TERM
"${DYNTRACE:-dyntrace}" trace -p "$pid" --tracer lttng -n "$name" --function "$function" -e
