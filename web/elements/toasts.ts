/**
 * The toasts that are shown. Errors stay until they are closed.
 *
 * The list stands apart from its drawing, because a button shows why its act has failed.
 */
import { signal } from '@preact/signals'
import { messageOf } from '../../protocol/message-of.ts'

export interface Toast {
  readonly id: number
  readonly text: string
  readonly isError: boolean
  readonly link?: { readonly to: string; readonly text: string }
}

const TOASTS_MAX = 3

export const toasts = signal<readonly Toast[]>([])
let lastId = 0

function add(toast: Omit<Toast, 'id'>): void {
  lastId += 1
  toasts.value = [...toasts.value, { id: lastId, ...toast }].slice(-TOASTS_MAX)
}

/** @param link where the effect can be seen */
export function showOutcome(text: string, link?: Toast['link']): void {
  add({ text, isError: false, ...(link === undefined ? {} : { link }) })
}

export function showError(error: unknown): void {
  add({ text: messageOf(error), isError: true })
}

export const removeToast = (id: number): void => {
  toasts.value = toasts.value.filter((toast) => toast.id !== id)
}
