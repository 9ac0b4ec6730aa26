/** The bar that finds text in the terminal's lines. */
import { SearchAddon } from '@xterm/addon-search'
import type { Terminal } from '@xterm/xterm'
import { elementOf } from './elements.ts'

/** @returns opens the bar */
export function startFindBar(terminal: Terminal): () => void {
  const bar = elementOf('find', HTMLFormElement)
  const text = elementOf('find-text', HTMLInputElement)
  const outcome = elementOf('find-outcome', HTMLElement)
  const search = new SearchAddon()
  terminal.loadAddon(search)

  const find = (isBackwards: boolean, incremental = false): void => {
    if (text.value === '') {
      outcome.textContent = ''
      terminal.clearSelection()
      return
    }
    const isFound = isBackwards
      ? search.findPrevious(text.value, { incremental })
      : search.findNext(text.value, { incremental })
    outcome.textContent = isFound ? '' : 'Nothing is found.'
  }
  const open = (): void => {
    bar.hidden = false
    text.focus()
    text.select()
  }
  const close = (): void => {
    bar.hidden = true
    outcome.textContent = ''
    terminal.focus()
  }

  // The newest lines are what a person looks for first, so finding goes upwards from the end.
  text.addEventListener('input', () => find(true, true))
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') close()
    else if (event.key !== 'Enter') return
    else find(!event.shiftKey)
    event.preventDefault()
  })
  bar.addEventListener('submit', (event) => {
    event.preventDefault()
    find(false)
  })
  elementOf('find-before', HTMLElement).addEventListener('click', () => find(true))
  elementOf('find-close', HTMLElement).addEventListener('click', close)
  elementOf('find-open', HTMLElement).addEventListener('click', () => (bar.hidden ? open() : close()))
  return open
}
