// Package browser drives Debian's chromium, headless, for tests of what is shown.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Patience is how long anything awaited may take on a machine where everything runs at once.
const Patience = 2 * time.Minute

// Browser is one with an empty profile.
type Browser struct {
	ctx   context.Context
	close func()
}

// Page is a tab of a browser, with a storage of its own.
type Page struct {
	t   testing.TB
	ctx context.Context
}

// Start starts a browser. It trusts the server whose public key has the hash, as base64 of SHA-256, and sends nothing to anybody
// but this machine. Close ends it. Its profile is in dir.
func Start(dir, publicKey string) (*Browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errors.New("chromium is missing: hack/install.sh --test installs it")
	}
	options := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(dir), chromedp.WindowSize(1280, 860),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), // whoever wants to call home finds none
		chromedp.Flag("ignore-certificate-errors-spki-list", publicKey),
	})
	allocated, closeBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeTab := chromedp.NewContext(allocated)
	b := &Browser{ctx, func() { closeTab(); closeBrowser() }}
	// The first call starts the browser with the context that it gets, whose end would be the browser's: it has no deadline of its own.
	if err := chromedp.Do(ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("start the browser: %w", err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.close() }

// Page opens a tab, which the end of the test closes. What it throws, and what its policy keeps it from, fails the test: neither is to
// happen.
func (b *Browser) Page(t testing.TB) *Page {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %s", &chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails})
		case *log.EventEntryAdded:
			if e.Entry.Source == log.EntrySourceSecurity || strings.Contains(e.Entry.Text, "Content Security Policy") {
				t.Errorf("the page was kept from something: %s", e.Entry.Text)
			}
		}
	}))
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil { // starts the tab, as Start does the browser
		t.Fatalf("open a tab: %v", err)
	}
	return &Page{t, ctx}
}

// run runs an action within the time that there is.
func run[T any](p *Page, what string, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%s: %v; the page says:\n%s", what, err, p.text())
	}
	return value
}

// text is what the page shows, for messages.
func (p *Page) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// Go opens an address.
func (p *Page) Go(url string) {
	p.t.Helper()
	run(p, "open "+url, chromedp.Navigate(url))
}

// Await waits until an expression of JavaScript is true, which it looks at before every frame.
func (p *Page) Await(expression string) {
	p.t.Helper()
	run(p, "await "+expression, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((resolve, reject) => {
		const look = () => {
			try {
				if (%s) resolve(true);
				else requestAnimationFrame(look);
			} catch (error) {
				reject(error);
			}
		};
		look();
	})`, expression), chromedp.EvalAwaitPromise))
}

// AwaitText waits until an element that the selector chooses contains a text.
func (p *Page) AwaitText(selector, text string) {
	p.t.Helper()
	p.Await(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, text))
}

// Click clicks on the first element that the selector chooses and whose text is as given, or any where that is empty, as soon as there is
// one.
func (p *Page) Click(selector, text string) {
	p.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll(%q)].find((e) => !e.disabled && (%q === '' || e.textContent.trim() === %q))", selector, text, text)
	p.Await(find)
	p.Run(find + ".click()")
}

// Fill puts a value into a field, as if it had been typed, as soon as the field is there.
func (p *Page) Fill(selector, value string) {
	p.t.Helper()
	p.Await(fmt.Sprintf("document.querySelector(%q)", selector))
	p.Run(fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		field.value = %q;
		for (const event of ['input', 'change']) field.dispatchEvent(new Event(event, {bubbles: true}));
	})()`, selector, value))
}

// Type sends keys to what has the focus.
func (p *Page) Type(keys string) {
	p.t.Helper()
	run(p, "type", chromedp.KeyEvent(keys))
}

// Run runs JavaScript and forgets what it gives.
func (p *Page) Run(script string) {
	p.t.Helper()
	run(p, "run "+script, chromedp.Evaluate[chromedp.Void](script))
}

// Value returns what an expression gives, as text; a promise is awaited.
func (p *Page) Value(expression string) string {
	p.t.Helper()
	return run(p, "evaluate "+expression, chromedp.Evaluate[string]("(async () => String(await ("+expression+")))()", chromedp.EvalAwaitPromise))
}

// Shot is what the page shows as a picture, PNG.
func (p *Page) Shot() []byte {
	p.t.Helper()
	return run(p, "take a picture", chromedp.CaptureScreenshot())
}

// Look has the page shown in a colour scheme, light or dark, and a size in pixels.
func (p *Page) Look(scheme string, width, height int64) {
	p.t.Helper()
	run(p, "set the colour scheme", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	run(p, "set the size", chromedp.EmulateViewport(width, height))
}
