/**
 * Makes a safe part of the document from hostile text in Markdown.
 *
 * Scripts, styles, forms, frames and pictures are taken out; a picture becomes a link to it. Links open a page of
 * their own, and lead to pages and mail only. No parser of the browser sees a handler or a style, because Chromium
 * reports each one to the console, also in documents that nobody shows.
 */
import createPurifier from 'dompurify'
import { marked } from 'marked'

const TAGS =
  'a blockquote br code del details dd dl dt em h3 h4 h5 h6 hr kbd li ol p pre s strong sub summary sup table tbody td th thead tr ul'
const ATTRIBUTES = ['href', 'title', 'open', 'start', 'align', 'colspan', 'rowspan']
const LINKED = /^(https?:|mailto:)/i

export function renderMarkdown(text: string): DocumentFragment {
  const html = withoutHandlers(marked.parse(text, { async: false, gfm: true }))
  // A document of its own loads and starts nothing while its elements are replaced.
  const { body } = new DOMParser().parseFromString(html, 'text/html')
  for (const picture of body.querySelectorAll('img')) picture.replaceWith(linkTo(body, picture))
  for (const box of body.querySelectorAll('input'))
    box.replaceWith(box.type === 'checkbox' ? (box.checked ? '☑' : '☐') : '')
  // The page has its own first two levels.
  for (const heading of body.querySelectorAll('h1, h2')) {
    const lower = body.ownerDocument.createElement('h3')
    lower.append(...heading.childNodes)
    heading.replaceWith(lower)
  }
  const safe = createPurifier(window).sanitize(body.innerHTML, {
    ALLOWED_TAGS: TAGS.split(' '),
    ALLOWED_ATTR: ATTRIBUTES,
    // The others are held against the addresses that may be linked to.
    ADD_URI_SAFE_ATTR: ['start', 'align', 'colspan', 'rowspan'],
    ALLOWED_URI_REGEXP: LINKED,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  })
  for (const link of safe.querySelectorAll('a')) {
    // Addresses of this page would be taken for its own.
    if (!LINKED.test(link.getAttribute('href') ?? '')) link.removeAttribute('href')
    link.target = '_blank'
    link.rel = 'noopener noreferrer nofollow'
  }
  // A wide table or program scrolls by the keyboard too.
  for (const wide of safe.querySelectorAll('pre')) wide.tabIndex = 0
  return safe
}

function linkTo(body: HTMLElement, picture: HTMLImageElement): HTMLElement {
  const source = picture.getAttribute('src') ?? ''
  const link = body.ownerDocument.createElement('a')
  // Without an address of its own it leads nowhere.
  if (LINKED.test(source)) link.href = source
  link.textContent = `picture: ${picture.alt === '' ? source : picture.alt}`
  return link
}

// ---- before a parser of the browser ---------------------------------------------------------------------------------

/** Attributes that stay, and those that the replacement of pictures and boxes reads. */
const PASSED_ATTRIBUTES = new Set([...ATTRIBUTES, 'src', 'alt', 'type', 'checked'])
/**
 * Comments, scripts and styles to their end, declarations, tags, and each `<` that begins none of them.
 *
 * No match of a tag reaches beyond the next `<`, and the others end with the text, so that time is linear.
 */
const MARKUP =
  /<!--(?:-?>|[\s\S]*?(?:-->|$))|<(script|style)(?=[\s/>])[\s\S]*?(?:<\/\1[^<>]*>|$)|<[!?][^>]*(?:>|$)|<(\/?[a-z][\w:-]*)((?:[^<>"']|"[^"<]*"|'[^'<]*')*)>|</gi
const ATTRIBUTE = /([^\s"'<>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+)))?/g

/** Every tag is written anew with the attributes that may pass; scripts, styles and comments go. */
function withoutHandlers(html: string): string {
  return html.replace(MARKUP, (whole, _raw, name?: string, attributes = '') => {
    if (name === undefined) return whole === '<' ? '&lt;' : ''
    return `<${name}${passedAttributes(attributes)}>`
  })
}

function passedAttributes(attributes: string): string {
  return [...attributes.matchAll(ATTRIBUTE)]
    .filter(([, name = '']) => PASSED_ATTRIBUTES.has(name.toLowerCase()))
    .map(([, name, double, single, bare]) => [name, double ?? single ?? bare ?? ''])
    .map(([name, value = '']) => ` ${name}="${value.replaceAll('"', '&quot;')}"`)
    .join('')
}
