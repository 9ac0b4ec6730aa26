/**
 * A list that the address asks for: its first page, the next one when somebody comes to its end, and its summary.
 *
 * The last answer is kept by the caller, so that a person who comes back to the page finds the rows that were read.
 */
import { type ReadonlySignal, type Signal, useComputed } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { showError } from '../../elements/toasts.ts'
import { useRequest } from './use-request.ts'

const TYPING_MS = 150

export type Keyed<T> = T & {
  /** The question that was answered. */
  readonly key: string
}

interface AskedListInput<Listed, Summary> {
  /** Tells different questions apart. */
  readonly key: ReadonlySignal<string>
  readonly answer: Signal<Keyed<Listed> | undefined>
  readonly listed: ReadonlySignal<Listed | undefined>
  /** The rows that are shown while the answer is the listed one. */
  readonly rows: ReadonlySignal<readonly unknown[]>
  /** A change of it reads the first page again. */
  readonly listVersion: string
  /** A change of it reads the summary again. */
  readonly summaryVersion: string
  /** Whether the question may be one of many, letter by letter. */
  readonly isTyped: () => boolean
  readonly readFirst: (signal: AbortSignal) => Promise<Listed>
  readonly readNext: (known: Listed) => Promise<Listed>
  readonly mayReadNext: (known: Listed) => boolean
  readonly readSummary: (signal: AbortSignal) => Promise<Summary>
}

export interface AskedList<Summary> {
  /** Whether the host has answered what is asked now. */
  readonly isListed: boolean
  readonly summary: Summary | undefined
  /** How many rows fit; undefined until it is known. */
  readonly count: number | undefined
  /** Another one with each page that the host has answered. */
  readonly version: unknown
  readonly error: unknown
  readonly retry: () => void
  readonly readMore: () => void
}

export function useAskedList<
  Listed extends { readonly isComplete: boolean },
  Summary extends { readonly count: number },
>(input: AskedListInput<Listed, Summary>): AskedList<Summary> {
  const { key, answer, listed, rows } = input
  const keep = (asks: string, read: Listed): void => {
    // The address changes before the request of the old one is aborted.
    if (key.peek() === asks) answer.value = { ...read, key: asks }
  }
  const first = useRequest(`${input.listVersion} ${key.value}`, async (signal) => {
    const asks = key.peek()
    if (input.isTyped()) await pauseForTyping(signal)
    const read = await input.readFirst(signal)
    if (!signal.aborted) keep(asks, read)
  })
  const summary = useRequest(
    `${input.summaryVersion} ${key.value}`,
    async (signal): Promise<Keyed<Summary>> => {
      const asks = key.peek()
      await pauseForTyping(signal)
      return { ...(await input.readSummary(signal)), key: asks }
    },
  ).data
  const isReading = useRef(false)
  const readMore = (): void => {
    const known = listed.peek()
    if (isReading.current || known === undefined || !input.mayReadNext(known)) return
    const asks = key.peek()
    isReading.current = true
    input
      .readNext(known)
      .then((read) => keep(asks, read), showError)
      .finally(() => {
        isReading.current = false
      })
  }
  const counted = summary?.key === key.value ? summary.count : undefined
  return {
    isListed: listed.value !== undefined,
    summary,
    count: listed.value?.isComplete ? rows.value.length : counted,
    version: listed.value,
    error: first.error,
    retry: first.reload,
    readMore,
  }
}

/** The answer, if it answers what is asked now. */
export const useListed = <Listed>(
  key: ReadonlySignal<string>,
  answer: Signal<Keyed<Listed> | undefined>,
): ReadonlySignal<Keyed<Listed> | undefined> =>
  useComputed(() => (answer.value?.key === key.value ? answer.value : undefined))

/** Waits for a person who types letter by letter. Rejects when a newer question has taken the place of this one. */
export const pauseForTyping = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, TYPING_MS)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
