package doctor

import "strings"

// escapeQueue writes a queue's name in a reference, where the first slash ends it.
var escapeQueue = strings.NewReplacer("%", "%25", "/", "%2F")

// jobRef names a job as leasectl takes it: QUEUE/ID.
func jobRef(queue, id string) string { return escapeQueue.Replace(queue) + "/" + id }

// ref names a job of the queue.
func (q *queueLook) ref(id string) string { return jobRef(q.name, id) }

// word is a name as it can be typed into a shell, for advice that is copied from a screen at night.
func word(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:/%+@") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
