package matrix

// A language is one client below clients/.
type language struct {
	name   string
	needs  []string // programs that must be installed
	driver string   // below its directory test
	fence  string   // of the program in its README
	script string   // the name of the file with that program

	adapters []string // the ways to send that CI must test

	// repeats is the way whose library repeats a GET by itself when a connection
	// is cut, with the old nonce. The client must cope with the refusal.
	repeats string
}

var languages = []language{
	{
		name: "go", needs: []string{"go"}, driver: "driver/main.go",
		fence: "go", script: "main.go", adapters: []string{"client", "transport"},
	},
	{
		name: "python", needs: []string{"python3"}, driver: "driver.py",
		fence: "python", script: "first_card.py", adapters: []string{"client", "aiohttp", "requests", "httpx", "httpx async"},
	},
	{
		name: "javascript", needs: []string{"node", "npm"}, driver: "driver.cjs",
		fence: "js", script: "first-card.mjs", adapters: []string{"client", "fetch", "axios"},
	},
	{
		name: "shell", needs: []string{"bash", "openssl", "curl", "jq", "python3"}, driver: "driver.py",
		fence: "bash", script: "first-card.sh", adapters: []string{"command"},
	},
	{
		name: "java", needs: []string{"java", "javac", "jar", "/usr/share/java/okhttp.jar"}, driver: "Driver.java",
		fence: "java", script: "FirstCard.java", adapters: []string{"client", "okhttp"}, repeats: "client",
	},
	{
		name: "php", needs: []string{"php", "composer"}, driver: "driver.php",
		fence: "php", script: "first-card.php", adapters: []string{"client", "guzzle", "psr-18"},
	},
	{
		name: "ruby", needs: []string{"ruby", "gem"}, driver: "driver.rb",
		fence: "ruby", script: "first_card.rb", adapters: []string{"client", "faraday"},
	},
	{
		name: "csharp", needs: []string{"mono", "mcs", "python3"}, driver: "Driver.cs",
		fence: "csharp", script: "FirstCard.cs", adapters: []string{"client", "handler"}, repeats: "client",
	},
}
