#!/bin/sh
# An agent in sh: takes one task from a queue and does it in three steps. See README.md.
#
#   agent.sh NAME QUEUE
set -u
name=${1:?usage: agent.sh NAME QUEUE} queue=${2:?usage: agent.sh NAME QUEUE}
dir=$(mktemp -d)

session=$(leasectl session open --as "$name" --ttl 5s) || exit
# The heartbeat. It ends with this script, also with one that is killed, and ends it when the session is lost.
(while kill -0 $$ 2>/dev/null && leasectl session keepalive "$session" >/dev/null; do sleep 1; done
kill -TERM $$ 2>/dev/null) &
heartbeat=$!
trap 'kill $heartbeat; leasectl session close "$session" >/dev/null; rm -r "$dir"' EXIT
trap 'exit 143' TERM

leasectl jobs claim "$queue" --session "$session" --wait "${AGENT_WAIT:-30s}" -o json >"$dir/task" || exit
field() { sed -n "s/^ *\"$1\": \"\(.*\)\",*\$/\1/p" "$dir/task"; }
ref=$(field ref) token=$(field token) nonce=$(field nonce)
did=$(field checkpoint) # what an agent before us has done

for step in 1 2 3; do
    case " $did " in *" $step:"*) continue ;; esac
    if [ "${AGENT_HANG:-}" = $step ]; then
        echo "$name hangs in step $step"
        while :; do sleep 1; done
    fi
    did="$did${did:+ }$step:$name"
    # Exit code 5 means that another agent has the task by now: stop.
    printf %s "$did" | leasectl jobs checkpoint "$ref" --token "$token" --nonce "$nonce" >/dev/null || exit
done
printf %s "$did" | leasectl jobs complete "$ref" --token "$token" --nonce "$nonce" >/dev/null || exit
echo "$name did $did"
