/** The names of priorities in lists of choices, at the number of each. */
import { priorityWord } from '../../../client/priorities.ts'

export const PRIORITY_NAMES: readonly string[] = [0, 1, 2, 3, 4].map((priority) => {
  const word = priorityWord(priority) ?? 'none'
  return word.charAt(0).toUpperCase() + word.slice(1)
})
