/** Keys of the page: single letters, letters in a row, and combinations. Single letters act only outside of fields. */
import { type Act, offeredActs } from './acts.ts'
import { showError } from './toasts.ts'

const ROW_MS_MAX = 1_000
/** Letters are typed into them, or choose in them. */
const FIELDS = 'input:not([type="range"], [type="checkbox"]), textarea, select, [contenteditable]'
/** The keys that the browser itself gives to what has the focus. */
const OWN_KEYS = {
  Space: 'button, summary, [role=menuitem], input[type="checkbox"]',
  Enter: 'a[href], button, summary, [role=menuitem]',
} as const

/** `r`, `Shift C`, `Ctrl Enter`; the command key counts as Ctrl. */
export function keyText(
  event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>,
): string {
  const isLetter = /^[a-z]$/i.test(event.key)
  const key = isLetter ? event.key.toLowerCase() : event.key === ' ' ? 'Space' : event.key
  const shift = event.shiftKey && (isLetter || event.key.length > 1)
  const ctrl = event.ctrlKey || event.metaKey
  return [ctrl ? 'Ctrl' : '', event.altKey ? 'Alt' : '', shift ? 'Shift' : '', key].filter(Boolean).join(' ')
}

let first: { readonly key: string; readonly at: number } | undefined

/** @param areLettersOn whether single letters act, which a person can switch off */
export function startKeys(areLettersOn: () => boolean): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return
    if (document.querySelector('dialog[open]') !== null) return
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
