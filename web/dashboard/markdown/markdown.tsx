/** Text in Markdown, drawn without anything that it could start or load. The libraries are loaded when one is shown. */
import { useEffect, useRef } from 'preact/hooks'

/** The text stands there as it is until it is drawn, and for good when it cannot be. */
export function Markdown({ text }: { readonly text: string }) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    let isShown = true
    const draw = async () => {
      const { renderMarkdown } = await import('./render-markdown.ts')
      if (isShown) place.current?.replaceChildren(renderMarkdown(text))
    }
    draw().catch(() => place.current?.replaceChildren(text))
    return () => {
      isShown = false
    }
  }, [text])
  return <div class="markdown" ref={place} />
}
