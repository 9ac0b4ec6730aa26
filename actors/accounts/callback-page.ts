/**
 * This file renders the page that the browser shows after the tracker's consent page: the result and the next step.
 *
 * The page holds text only, without script, style, link or image, so the strictest content policy allows it. All text
 * is escaped because the tracker supplies part of it. The page sends no referrer because its address holds a code.
 */
import type { Result } from '../../core/result.ts'

/** 200 exactly when the account is connected. */
export interface CallbackPage {
  readonly status: 200 | 400 | 503
  readonly title: string
  readonly message: string
}

const CLOSE_WINDOW = 'You can close this window.'

/** @param result the connected account's name, or the reason why none is connected */
export function createCallbackPage(result: Result<string>): CallbackPage {
  if (result.ok)
    return {
      status: 200,
      title: 'Connected',
      message: `switchyard is connected to the tracker: ${result.value}. ${CLOSE_WINDOW}`,
    }
  const { kind, message } = result.refusal
  return {
    status: kind === 'unavailable' ? 503 : 400,
    title: 'Not connected',
    message: `The tracker was not connected: ${message}. ${CLOSE_WINDOW}`,
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
<title>${escapeHtml(title)} · switchyard</title>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(message)}</p>
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

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (char) => ENTITIES[char] ?? '')
