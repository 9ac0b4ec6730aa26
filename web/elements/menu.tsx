/** A button with three dots that opens a list of acts. The list stands above everything and closes by itself. */
import { useId, useRef } from 'preact/hooks'
import { Icon } from './glyph.tsx'
import { showError } from './toasts.ts'

export interface MenuEntry {
  readonly text: string
  readonly act: () => void | Promise<void>
  /** Why it cannot be done now. */
  readonly unavailable?: string | undefined
  readonly isDestructive?: boolean
}

const GAP = 4
const EDGE = 8

export function Menu({ label, entries }: { readonly label: string; readonly entries: readonly MenuEntry[] }) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const list = useRef<HTMLDivElement>(null)

  function place(): void {
    const [from, menu] = [button.current?.getBoundingClientRect(), list.current]
    if (from === undefined || menu === null) return
    const { width, height } = menu.getBoundingClientRect()
    const below = from.bottom + GAP
    const top = below + height + EDGE > innerHeight ? Math.max(EDGE, from.top - GAP - height) : below
    menu.style.setProperty('left', `${Math.max(EDGE, from.right - width)}px`)
    menu.style.setProperty('top', `${top}px`)
    menu.querySelector<HTMLElement>('[role=menuitem]')?.focus()
  }

  function move(event: KeyboardEvent): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (event.key === 'Tab') list.current?.hidePopover()
    if (step === 0) return
    event.preventDefault()
    const items = [...(list.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])]
    const at = items.findIndex((item) => item.matches(':focus'))
    items[(at + step + items.length) % items.length]?.focus()
  }

  function start({ act, unavailable }: MenuEntry): void {
    if (unavailable !== undefined) return
    list.current?.hidePopover()
    Promise.resolve(act()).catch(showError)
  }

  return (
    <>
      <button
        ref={button}
        type="button"
        class="button plain-quiet menu-button"
        aria-haspopup="menu"
        aria-label={label}
        title={label}
        popovertarget={id}
      >
        <Icon name="more" />
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        class="menu"
        role="menu"
        aria-label={label}
        onToggle={(event) => {
          if (event.newState === 'open') place()
        }}
        onKeyDown={move}
      >
        {entries.map((entry) => (
          <MenuItem key={entry.text} entry={entry} start={() => start(entry)} />
        ))}
      </div>
    </>
  )
}

function MenuItem({ entry, start }: { readonly entry: MenuEntry; readonly start: () => void }) {
  const { text, unavailable, isDestructive = false } = entry
  return (
    <button
      type="button"
      role="menuitem"
      tabIndex={-1}
      class={isDestructive ? 'destructive' : ''}
      aria-disabled={unavailable === undefined ? undefined : 'true'}
      title={unavailable}
      onClick={start}
    >
      {text}
      {unavailable !== undefined && <span class="faint">{unavailable}</span>}
    </button>
  )
}
