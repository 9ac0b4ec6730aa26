/** The row of the overview that a person has reached by keys. */
import { signal } from '@preact/signals'

export const chosenRun = signal<string | undefined>(undefined)

/** The class of a row besides its own. */
export const chosenClass = (id: string): string => (chosenRun.value === id ? ' chosen' : '')
