package top_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/top"
)

// readmePicture is what README.md shows.
const readmePicture = "../../../docs/top.svg"

// busyLook and busyNews are a screen with something of everything.
func busyLook() top.Look {
	look := someLook()
	look.Queues = []top.Queue{
		{Name: "mail", Shell: "mail", Ready: 1180, Claimed: 14, Orphan: 1, Retry: 12, Dead: 2, Oldest: noon.Add(-41 * time.Second), Busy: 15, Concurrency: 16, Rate: 10.3},
		{Name: "reports", Shell: "reports", Paused: true, PausedAt: noon.Add(-time.Hour), PausedBy: "ana", Ready: 86, Scheduled: 3, Oldest: noon.Add(-58 * time.Minute)},
		{Name: "thumbnails", Shell: "thumbnails", Claimed: 3, Busy: 3, Concurrency: 24, Rate: 2.1},
		{Name: "weekly-summaries", Shell: "weekly-summaries", Scheduled: 40},
	}
	look.Workers = append(look.Workers, top.Worker{Name: "node-a", Session: "node-a.1", Queues: []string{"thumbnails"}, Busy: 3, Concurrency: 16, TTLLeft: 8 * time.Second})
	return look
}

func busyNews() top.News {
	news := someNews()
	news.Running["node-a.1"] = top.Job{ID: "cat.png", Kind: "resize", Claimed: noon.Add(-2 * time.Second)}
	news.Done["thumbnails"] = 4
	news.Events[2].Time = noon.Add(time.Second)
	news.Events = append(news.Events,
		top.Event{Time: noon.Add(time.Second), Type: "done", About: "thumbnails/dog.png", Actor: "node-a", Token: "918391"},
		top.Event{Time: noon.Add(2 * time.Second), Type: "retry", About: "mail/01J9XA", Actor: "w-7f31", Detail: "smtp 421: try again later", Token: "918402"})
	return news
}

func minutes(d time.Duration) string {
	if d < 2*time.Minute {
		return spell(d)
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}

// TestPictureOfTheScreen holds the picture of README.md to what the screen shows of a
// look that stands here.
func TestPictureOfTheScreen(t *testing.T) {
	m := top.New(t.Context(), top.Config{Title: "prod", Age: minutes}, &fake{}, busyLook())
	m.Resize(120, 19)
	for i, done := range []int{4, 9, 12, 10, 3, 1, 8, 11, 12, 14} {
		m.Update(top.News{Now: noon.Add(time.Duration(i-10) * 5 * time.Second), Done: map[string]int{"mail": 5 * done}})
	}
	m.Update(busyNews())
	var drawn strings.Builder
	if err := m.Picture(&drawn); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"leasectl top: prod</title>", ">reports<", ">leasectl top<", "t-warn"} {
		if !strings.Contains(drawn.String(), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if *update {
		if err := os.WriteFile(readmePicture, []byte(drawn.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := os.ReadFile(readmePicture)
	if err != nil {
		t.Fatal(err)
	}
	if string(shown) != drawn.String() {
		t.Error("docs/top.svg is not what the screen shows: look at it with a browser, and run make pictures")
	}
}
