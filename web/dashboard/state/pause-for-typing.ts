/** Waits for a person who types letter by letter. Rejects when a newer question has taken the place of this one. */
const TYPING_MS = 150

export const pauseForTyping = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, TYPING_MS)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
