/**
 * Toasts tell the outcome of an act whose effect is not in view. Errors stay until they are closed.
 *
 * The region is the page's one polite live region.
 */
import { useEffect } from 'preact/hooks'
import { Button } from './button.tsx'
import { Glyph, Icon } from './glyph.tsx'
import { removeToast, type Toast, toasts } from './toasts.ts'

const SHOWN_MS = 6_000

/** Stands once in the page. */
export function Toasts() {
  return (
    <div class="toasts" role="status">
      {toasts.value.map((toast) => (
        <ToastLine key={toast.id} toast={toast} />
      ))}
    </div>
  )
}

function ToastLine({ toast }: { readonly toast: Toast }) {
  const { id, text, isError, link } = toast
  let timer: ReturnType<typeof setTimeout> | undefined
  const pause = () => clearTimeout(timer)
  const start = () => {
    pause()
    if (!isError) timer = setTimeout(() => removeToast(id), SHOWN_MS)
  }
  useEffect(() => {
    start()
    return pause
  }, [])
  return (
    <div class="toast" onPointerEnter={pause} onPointerLeave={start} onFocusIn={pause} onFocusOut={start}>
      <Glyph name={isError ? 'failed' : 'completed'} />
      <span>{text}</span>
      {link !== undefined && <a href={link.to}>{link.text}</a>}
      <Button kind="plain-quiet" small label="Close" act={() => removeToast(id)}>
        <Icon name="close" />
      </Button>
    </div>
  )
}
