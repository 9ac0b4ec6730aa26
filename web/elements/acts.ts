/**
 * Acts: what a person can do now, by button, key or palette, from one description.
 *
 * A component offers acts while it is shown. Keys and the palette use the acts that are offered; the innermost
 * component's act wins where two have the same keys. An act that is not available is found by its name, with the reason.
 */
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { showError } from './toasts.ts'

export interface Act {
  /** Unique among the acts of a page. */
  readonly id: string
  /** Verb and object: `Retry ENG-398`. */
  readonly title: string
  /** The heading in the palette: `Actions on ENG-398`, `Go to`. */
  readonly group: string
  /** `r`, `Shift c`, `g o` for keys in a row, `Ctrl Enter`. */
  readonly keys?: string
  /** Why it cannot be done now. */
  readonly unavailable?: string | undefined
  /** The act works in text fields too. */
  readonly evenInFields?: boolean
  readonly act: () => void | Promise<void>
}

const offered = signal<readonly { readonly acts: readonly Act[] }[]>([])

/** All acts, those of the innermost component first. */
export const offeredActs = (): readonly Act[] => offered.value.toReversed().flatMap(({ acts }) => acts)

/** Offers acts for as long as the component is shown. */
export function useActs(acts: readonly Act[]): void {
  const current = useRef<{ acts: readonly Act[] }>({ acts })
  current.current.acts = acts
  useEffect(() => {
    const own = current.current
    offered.value = [...offered.value, own]
    return () => {
      offered.value = offered.value.filter((entry) => entry !== own)
    }
  }, [])
}

const ROW_MS_MAX = 1_000
/** Letters are typed into them, or choose in them. */
const FIELDS = 'input:not([type="range"], [type="checkbox"]), textarea, select, [contenteditable]'
/** The keys that the browser itself gives to what has the focus. */
const OWN_KEYS = {
  Space: 'button, summary, [role=menuitem], input[type="checkbox"]',
  Enter: 'a[href], button, summary, [role=menuitem]',
} as const

/** `r`, `Shift C`, `Ctrl Enter`; the command key counts as Ctrl. */
function keyText(event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>): string {
  const isLetter = /^[a-z]$/i.test(event.key)
  const key = isLetter ? event.key.toLowerCase() : event.key === ' ' ? 'Space' : event.key
  const shift = event.shiftKey && (isLetter || event.key.length > 1)
  const ctrl = event.ctrlKey || event.metaKey
  return [ctrl ? 'Ctrl' : '', event.altKey ? 'Alt' : '', shift ? 'Shift' : '', key].filter(Boolean).join(' ')
}

let first: { readonly key: string; readonly at: number } | undefined

/**
 * Keys are single letters, letters in a row, and combinations. Single letters act only outside of fields.
 *
 * @param areLettersOn whether single letters act, which a person can switch off
 */
export function startKeys(areLettersOn: () => boolean): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return
    // An open dialog or menu has the keys, and Escape closes it alone.
    if (document.querySelector('dialog[open], :popover-open') !== null) return
    const isIn = (parts: string) => event.target instanceof Element && event.target.closest(parts) !== null
    const isInField = isIn(FIELDS)
    const key = keyText(event)
    if ((key === 'Space' || key === 'Enter') && isIn(OWN_KEYS[key])) return
    const act = findAct(key, event.timeStamp, isInField, areLettersOn())
    if (act === undefined) return
    event.preventDefault()
    if (act.unavailable !== undefined) showError(`${act.title}: ${act.unavailable}`)
    else Promise.resolve(act.act()).catch(showError)
  })
}

function findAct(key: string, at: number, isInField: boolean, areLettersOn: boolean): Act | undefined {
  const isLetter = !/^(Ctrl|Alt)/.test(key) && key !== 'Escape'
  if (isLetter && !areLettersOn) return undefined
  const acts = offeredActs().filter(({ evenInFields = false }) => evenInFields || !isInField)
  const inRow = first !== undefined && at - first.at < ROW_MS_MAX ? `${first.key} ${key}` : undefined
  first = undefined
  const found = acts.find(({ keys }) => keys !== undefined && (keys === inRow || keys === key))
  if (found === undefined && acts.some(({ keys }) => keys?.startsWith(`${key} `) === true))
    first = { key, at }
  return found
}
