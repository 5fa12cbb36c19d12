package leasectl

// topics are the texts of leasectl help TOPIC.
var topics = map[string]string{
	"exit-codes": `Exit codes of leasectl:

    0  ok, also when a list is empty
    1  failed
    2  bad usage, or a question that needs --yes
    3  not found
    4  not logged in or not permitted
    5  conflict: a revision, a token or a state has moved meanwhile
    6  etcd is not reachable or gives no answer in time, or --timeout is over
    7  a part of a bulk operation failed
    8  doctor: errors remain
  126  the command after -- cannot be executed
  127  the command after -- is not found
  130  interrupted by SIGINT; work: aborted by a second signal of any kind
  129, 131, 143  interrupted by SIGHUP, SIGQUIT, SIGTERM
  141  whoever read the output is gone, as with | head -n 1

work exits with 0 after the first signal, when what ran has ended, and after
--once whatever became of the job: it is printed. A SIGTERM within half a second
of the first signal is taken for the same one: timeout(1) sends two.

Verbs that run a command under a lock or a leadership exit with its code, or:

  121  the lease was lost, or taken by force; the command was stopped
  124  not acquired in time; locks and elections acquire say so too
  125  leasectl itself failed
`,
	"names": `Names on the command line, and as leasectl prints them.

A job is QUEUE/ID: the first slash ends the queue. In it %XX stands for a byte, as
in a URL, and a percent sign that begins no such escape for itself. leasectl prints
jobs so, as job/QUEUE/ID with -o name: blanks, quotes, percent signs, what a shell
expands and what is not seen are %XX. So each is one word for a shell and for xargs,
and can be handed on as it stands there:

  leasectl jobs ls mail --state dead -o name | xargs -n 1 leasectl jobs requeue

Queues, locks, elections and contexts are QUEUE or NAME, as they are, without any
escape; or queue/NAME, lock/NAME, election/NAME and context/NAME with the escapes of
a job. That is how -o name prints them, and tables where the name is not one word.
The verbs of each noun take both.

What comes from etcd is shown so that a terminal does not obey it: line breaks as
blanks, other controls and what is not seen as \x1b or \u202e; in JSON as \u001b.
`,
	"env": `Environment of leasectl. For each setting by itself, a flag wins over its LEASECTL
variable, that one over the context (leasectl config), and that one over etcdctl's
variable. leasectl config view --show-origin tells what is in use and why.

  LEASECTL_ENDPOINTS      ETCDCTL_ENDPOINTS     --endpoints
  LEASECTL_ROOT                                 --root
  LEASECTL_AS                                   --as
  LEASECTL_CACERT         ETCDCTL_CACERT        --cacert
  LEASECTL_CERT           ETCDCTL_CERT          --cert
  LEASECTL_KEY            ETCDCTL_KEY           --key
  LEASECTL_USER           ETCDCTL_USER          --user; the variables also take name:password
  LEASECTL_PASSWORD       ETCDCTL_PASSWORD      (no flag: a command line is readable by all)
  LEASECTL_PASSWORD_FILE                        --password-file
  LEASECTL_DIAL_TIMEOUT   ETCDCTL_DIAL_TIMEOUT  --dial-timeout
  LEASECTL_OUTPUT                               -o, --output
  LEASECTL_CONTEXT                              --context; none is to use none
  LEASECTL_CONFIG         the file of contexts ($XDG_CONFIG_HOME/leasectl/config.yaml)
  LEASECTL_COLOR                                --color; auto minds NO_COLOR and TERM=dumb

Certificates, their keys and authorities are read again for each connection, so what
runs for long takes up those that are replaced on disk. A password is read once: when
etcd refuses it later, work ends with exit code 4, for a supervisor to start it anew.
`,
	"states": `States of a job, as jobs ls shows them.

  live       ready       can be claimed now
             scheduled   waits for its time (--delay)
             retry       waits for its next attempt after a failure or a loss
             claimed     has an owner whose session lives
             orphan      has an owner whose session is gone: claimable again, in
                         its old place in the queue
  over       done        completed; kept for a while, with its result
             cancelled   by somebody, or by its own handler; kept for a while
             dead        failed for good; kept until somebody acts

A while is an hour, but of what one process ends no more than 10,000 jobs or 64 MiB:
then the oldest go first. All three are settings of the queue, for all processes:
leasectl queues set QUEUE --retain 24h --retain-jobs 50000 --retain-bytes 256MiB.
Programs may keep less than that (workqueue.Config).

  enqueue          -> ready, or scheduled
  claimed by work  -> claimed
  the command ends -> done, retry, or dead (leasectl help exec)
  its owner dies   -> orphan, once the session's TTL is over (work --ttl)
  jobs cancel      ready, scheduled, retry, claimed, orphan -> cancelled
  jobs requeue     dead, done, cancelled -> ready, behind those that wait; done and
                   cancelled only where the payload is at most 1 KiB: a larger one
                   goes when the job ends

Failures and losses are counted apart. Failures (the command's) bury a job after
--max-attempts of them, losses (its worker ended) after three in a row without
any sign of progress. ATTEMPT shows the ordinal of the last attempt and how many
failures are allowed.
`,
	"filters": `Filters select jobs: jobs ls --filter 'queue:mail state:dead kind:send*'

A filter is terms of FIELD:VALUE; all of them must hold. A minus before a term is
its opposite: -kind:send*.

  state:dead,retry        one of these (leasectl help states); claimed finds orphans too
  queue:mail              also kind, id: the whole text; a star stands for any text
  worker:w-7f             the owner, by session or by the identity it begins with
  label.tenant:42         the label of that name; label.tenant:* has it at all
  error:*timeout*         of the last attempt, or why the job is over; in any case
  attempt:>3              also failures, losses, priority, size (of the payload, in
                          bytes), token, revision; with >, >=, <, <= or without
  age:>1h                 since it was enqueued; running: since it was claimed;
                          ended: since it was over; with > or <, in s, m, h or d

A comma means or, in every value: kind:send*,receive. Quotes keep spaces, commas,
colons and stars as they are: error:*"no such user"*. In a shell, put the whole
filter in single quotes.

queue, state and id say where to look. For everything else the jobs there are
read one by one; jobs ls says how many it has read.
`,
	"fencing": `How a late worker is kept from doing harm.

Each claim has a token: the revision of the job's key at that moment. It rises
with every claim of the job, and whoever hands in a result proves, in the same
etcd transaction, that his token is still the current one. So of all who ever
worked a job, one result is accepted. A worker that froze, was replaced and woke
up again is refused; work says so, and stops its command.

What etcd cannot guard is what a command does elsewhere. Two things help:

  LEASECTL_IDEMPOTENCY_KEY   the same for every attempt of the job: give it to
                             services that know such keys, so that an effect that
                             happened already is not repeated
  LEASECTL_TOKEN             higher in a later attempt of the same job: a store that
                             keeps, per claimed key, which is per job here, the
                             highest token it saw, and refuses lower ones, keeps a
                             late owner out

Tokens order the claims of one key, not those of two: what several jobs write is
guarded by the token of one lock that each of them holds meanwhile. That is what
./publish has in LEASECTL_TOKEN in:

  leasectl work pages -- leasectl lock site -- ./publish

A lock or a leadership has a token too: LEASECTL_TOKEN, of the key in
LEASECTL_CLAIM_KEY. etcdctl txn can guard a write with it: mod("KEY") = "TOKEN".

People are guarded alike: jobs requeue and jobs cancel act only on the revision
that they showed, or on --revision, and exit with 5 when the job has moved.
`,
	"scripts": `How a script, or a program in any language, works jobs step by step.

  S=$(leasectl session open --ttl 15s)                     who one is, and how long
                                                           one may be silent
  leasectl session keepalive "$S"                          every few seconds, beside
                                                           the work; exit code 5:
                                                           stop, others take over
  leasectl jobs claim mail --session "$S" --wait 30s       a job with its token and
                                                           nonce; exit code 3: none
  leasectl jobs progress   mail/ID --token N --nonce X     reports, from stdin
  leasectl jobs checkpoint mail/ID --token N --nonce X     for the next attempt
  leasectl jobs complete   mail/ID --token N --nonce X     the result, from stdin
  leasectl jobs fail       mail/ID --token N --nonce X --error TEXT
  leasectl jobs release    mail/ID --token N --nonce X     given back, not counted
  leasectl session close "$S"

What becomes of a job is told by jobs wait, jobs watch and jobs result; enqueue --wait
enqueues, waits and prints the result in one call.

Locks, leaderships and permits go in the same steps:

  leasectl locks acquire deploy --session "$S" --wait 1m   its token, nonce and key;
                                                           exit code 124: not in time
  leasectl locks verify  deploy --token N --nonce X        exit code 5: stop
  leasectl locks release deploy --token N --nonce X
  leasectl elections acquire|verify|release NAME           as for locks
  leasectl semaphores acquire NAME --permits 4 ...         as for locks

Exit code 5 of the steps means that the token is not the current one: somebody else
owns the job, or it is over, and nothing was changed. A step that was cut off can
be repeated: completing what one has completed oneself is exit code 5 as well.

examples/scripts has a whole worker in sh and one in Python, examples/agents two
agents that share a task.
`,
	"exec": `What a command that works jobs gets, and what its end means.

  stdin                      the payload, byte for byte
  LEASECTL_JOB_ID            and _QUEUE, _KIND, _ATTEMPT, _TOKEN, _SESSION
  LEASECTL_IDEMPOTENCY_KEY   the same for every attempt of the job
  LEASECTL_DEADLINE          when the attempt is stopped (RFC 3339), if it has a timeout
  LEASECTL_RESULT_FILE       write the result here; else it is the last 64 KiB of stdout
  LEASECTL_CHECKPOINT_FILE   what an earlier attempt left, if it left something
  LEASECTL_ENDPOINTS, _ROOT  those in use
  TRACEPARENT, TRACESTATE, BAGGAGE  if the job carries them
  the rest of leasectl's environment, without passwords

Commands of work, lock and campaign inherit neither LEASECTL_PASSWORD nor
ETCDCTL_PASSWORD, nor endpoints with a password in them, and of LEASECTL_USER and
ETCDCTL_USER the name only: what they print is kept where others read it.
--pass-credentials lets them. A command that calls leasectl itself had better use a
role of its own, in a context or a --password-file. A process of the same user can read leasectl's own environment.

  exit 0           done
  exit 75          failed, and will pass soon: tried again after 1 s
  exit 64, 65, 78  failed for good: dead at once
  other, signals   failed: tried again with backoff (1 s, doubled up to 10 min)

Each of the failures counts: after --max-attempts of them (enqueue; default 5) the
job is dead. What counts as nothing is a command that was stopped because of a
lost session or an aborted work: its job is given back.

The last lines of stderr become the attempt's error. When the claim or the
session is lost, the process group gets SIGTERM, and SIGKILL after the grace.

work --timeout ends an attempt that takes too long, --idle-timeout one whose command
writes nothing for too long, to stdout or stderr; also one that is stopped. Both
count as a failure. With -c above 1, or on a terminal, each line of stderr that work
shows begins with its job; --prefix=false leaves that out.

A command is all that it started. The process leasectl-guard, its parent, kills what
is left of it when it ends, when leasectl ends in whatever way, SIGKILL included,
and when leasectl is stopped for longer than the claim can be relied on. On Linux
that includes processes that changed their group or session; elsewhere only the
process group. What must outlive the command has to be started by something else,
such as systemd-run. It is impossible to end processes of another user (sudo) or
of another daemon (docker run, ssh), and those that the kernel does not interrupt;
to act in a machine that is suspended or a container that is frozen, until it wakes
up; and, when leasectl and its guard are killed in one moment, to end more than the
command's first process.
`,
}
