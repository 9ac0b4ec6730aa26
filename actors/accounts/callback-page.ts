/**
 * The page that a browser ends up on after the consent: what happened, and what to do now.
 *
 * Nothing but text: no script, style, link or picture, so that it works under the strictest policy. All of it is
 * escaped, for some of it was said by others; the address that led here holds a code, so no referrer leaves the page.
 */
import type { Result } from '../../core/result.ts'

/** 200 exactly when the account is connected. */
export interface CallbackPage {
  readonly status: 200 | 400 | 503
  readonly title: string
  readonly message: string
}

const CLOSE = 'You can close this window.'

/** @param arrived whose account is connected, or why none is */
export function callbackPage(arrived: Result<string>): CallbackPage {
  if (arrived.ok)
    return {
      status: 200,
      title: 'Connected',
      message: `switchyard is connected to the tracker: ${arrived.value}. ${CLOSE}`,
    }
  const { kind, message } = arrived.refusal
  return {
    status: kind === 'unavailable' ? 503 : 400,
    title: 'Not connected',
    message: `The tracker was not connected: ${message}. ${CLOSE}`,
  }
}

export function renderPage({ title, message }: CallbackPage): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>${escaped(title)} · switchyard</title>
</head>
<body>
<h1>${escaped(title)}</h1>
<p>${escaped(message)}</p>
</body>
</html>
`
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => ENTITIES[char] ?? '')
