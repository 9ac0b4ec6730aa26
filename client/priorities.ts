/** The words of a ticket's priority. */

/** `urgent` to `low` by the number in the record; a ticket without a priority has 0. */
const WORDS: readonly (string | undefined)[] = [undefined, 'urgent', 'high', 'medium', 'low']

export const priorityWord = (priority: number): string | undefined => WORDS[priority]
