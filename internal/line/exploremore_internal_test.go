package line

import (
	"flag"
)

var exploreMore = flag.Bool("explore.more", false, "search the large worlds too: minutes")
