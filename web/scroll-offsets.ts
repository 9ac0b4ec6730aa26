/**
 * Each entry of the history keeps how far the page and its lists with a name are scrolled, so that going back finds the
 * rows that were in view.
 *
 * The parts of a page are drawn one after another, so the offsets are set again on each frame until all of them hold, the
 * person acts, or it takes too long.
 */

interface EntryState {
  readonly offsets: Readonly<Record<string, number>>
}

/** An element with it keeps its offset under this name. */
const NAME = 'data-offset'
const PAGE = 'page'
/** Offsets are kept after a pause, because browsers limit how often an entry may change. */
const KEEP_MS = 300
const RESTORE_MS_MAX = 5_000
const ACTS = ['wheel', 'touchstart', 'pointerdown', 'keydown'] as const

let timer: ReturnType<typeof setTimeout> | undefined
/** The offsets that do not hold yet, and when to give them up. */
let wanted: Map<string, number> | undefined
let wantedUntil = 0

export function startScrollOffsets(): void {
  history.scrollRestoration = 'manual'
  addEventListener('popstate', restoreOffsets)
  document.addEventListener('scroll', keepSoon, { capture: true, passive: true })
  for (const act of ACTS) addEventListener(act, giveUp, { capture: true, passive: true })
  restoreOffsets()
}

/** Call it before another entry takes the place of this one. */
export function keepOffsets(): void {
  clearTimeout(timer)
  if (wanted !== undefined) return
  const offsets: Record<string, number> = { ...stateOf()?.offsets, [PAGE]: Math.round(scrollY) }
  for (const list of document.querySelectorAll(`[${NAME}]`))
    offsets[list.getAttribute(NAME) ?? ''] = Math.round(list.scrollTop)
  const state: EntryState = { offsets }
  history.replaceState(state, '')
}

function keepSoon({ target }: Event): void {
  if (target instanceof Element && !target.hasAttribute(NAME)) return
  clearTimeout(timer)
  timer = setTimeout(keepOffsets, KEEP_MS)
}

const giveUp = (): void => {
  wanted = undefined
}

/** The browser itself places an entry that it has made, for a link to a part of the page. */
function restoreOffsets(): void {
  clearTimeout(timer)
  wanted = undefined
  const state = stateOf()
  if (state === undefined) return
  wanted = new Map([[PAGE, 0], ...Object.entries(state.offsets)])
  wantedUntil = performance.now() + RESTORE_MS_MAX
  requestAnimationFrame(tryOffsets)
}

function tryOffsets(): void {
  if (wanted === undefined) return
  for (const [name, offset] of wanted) {
    const element = name === PAGE ? document.scrollingElement : document.querySelector(`[${NAME}="${name}"]`)
    if (element === null) continue
    element.scrollTop = offset
    if (Math.abs(element.scrollTop - offset) <= 1) wanted.delete(name)
  }
  if (wanted.size === 0 || performance.now() > wantedUntil) giveUp()
  else requestAnimationFrame(tryOffsets)
}

/** Nothing else keeps a state in the history. */
function stateOf(): EntryState | undefined {
  const state: EntryState | null = history.state
  return state ?? undefined
}
