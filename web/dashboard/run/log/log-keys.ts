/** The keys of the log. */
import { useActs } from '../../../elements/acts.ts'
import { showOutcome } from '../../../elements/toasts.ts'
import { toggleWrapping } from './log-bar.tsx'
import type { LogView } from './log-view.ts'

/** @param announce is read out by a screen reader */
export function useLogKeys(view: LogView, searchId: string, announce: (text: string) => void): void {
  const group = 'Log'
  const stepError = (step: 1 | -1): void => {
    if (!view.stepError(step)) showOutcome(step === 1 ? 'No error follows.' : 'No error comes before.')
  }
  useActs([
    {
      id: 'log-search',
      title: 'Search the log',
      group,
      keys: '/',
      act: () => document.getElementById(searchId)?.focus(),
    },
    { id: 'log-next-line', title: 'Next line', group, keys: 'j', act: () => view.stepLine(1) },
    { id: 'log-previous-line', title: 'Previous line', group, keys: 'k', act: () => view.stepLine(-1) },
    { id: 'log-next-error', title: 'Next error', group, keys: 'e', act: () => stepError(1) },
    { id: 'log-previous-error', title: 'Previous error', group, keys: 'Shift e', act: () => stepError(-1) },
    {
      id: 'log-follow',
      title: 'Follow the end of the log',
      group,
      keys: 'Shift g',
      act: () => view.follow(),
    },
    { id: 'log-fold', title: 'Fold repeated lines', group, keys: 'z', act: () => view.toggleFolding() },
    { id: 'log-wrap', title: 'Wrap long lines', group, keys: 'w', act: () => toggleWrapping(view) },
    {
      id: 'log-read-last',
      title: 'Read the last line',
      group,
      keys: 'Shift l',
      act: () => {
        const { lines, rowCount } = view.model
        announce(rowCount === 0 ? 'The log is empty.' : lines.text(view.model.lineOf(rowCount - 1)))
      },
    },
    {
      id: 'log-copy',
      title: 'Copy the chosen lines',
      group,
      unavailable: view.chosen.value === undefined ? 'Choose lines by their numbers first.' : undefined,
      act: async () => {
        await navigator.clipboard.writeText(view.chosenText())
        showOutcome('The lines are copied.')
      },
    },
  ])
}
