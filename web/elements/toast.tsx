/**
 * Toasts tell the outcome of an act whose effect is not in view. Errors stay until they are closed.
 *
 * The region is the page's one polite live region.
 */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { Button } from './button.tsx'
import { Glyph } from './glyph.tsx'
import { Icon } from './icon.tsx'

interface Toast {
  readonly id: number
  readonly text: string
  readonly isError: boolean
  readonly link?: { readonly to: string; readonly text: string }
}

const SHOWN_MS = 6_000
const TOASTS_MAX = 3

const toasts = signal<readonly Toast[]>([])
let lastId = 0

function add(toast: Omit<Toast, 'id'>): void {
  lastId += 1
  toasts.value = [...toasts.value, { id: lastId, ...toast }].slice(-TOASTS_MAX)
}

/** @param link where the effect can be seen */
export function showOutcome(text: string, link?: Toast['link']): void {
  add({ text, isError: false, ...(link === undefined ? {} : { link }) })
}

export function showError(error: unknown): void {
  add({ text: error instanceof Error ? error.message : String(error), isError: true })
}

const remove = (id: number): void => {
  toasts.value = toasts.value.filter((toast) => toast.id !== id)
}

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
    if (!isError) timer = setTimeout(() => remove(id), SHOWN_MS)
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
      <Button kind="plain-quiet" small label="Close" act={() => remove(id)}>
        <Icon name="close" />
      </Button>
    </div>
  )
}
