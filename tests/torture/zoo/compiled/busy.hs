-- Lazy lists, maps, light threads, caught errors and a collection: one line per round.
module Main (main) where

import Control.Concurrent
import Control.Exception
import Control.Monad
import qualified Data.Map.Strict as Map
import System.Directory (doesFileExist)
import System.Environment (getArgs)
import System.IO
import System.Mem (performGC)

collatz :: Int -> Int
collatz 1 = 0
collatz n = 1 + collatz (if even n then n `div` 2 else 3 * n + 1)
{-# NOINLINE collatz #-}

deep :: Int -> Integer
deep 0 = 0
deep n = toInteger n + deep (n - 1)
{-# NOINLINE deep #-}

worker :: MVar Int -> Int -> IO ()
worker box seed = do
  let table = Map.fromListWith (+) [(k `mod` 97, collatz k) | k <- [seed .. seed + 400]]
  putMVar box $! Map.foldl' (+) 0 table

caught :: Int -> IO Int
caught n = do
  a <- try (evaluate (n `div` (n - n))) :: IO (Either ArithException Int)
  b <- try (evaluate (length (head ([] :: [String])))) :: IO (Either SomeException Int)
  c <- try (throwIO (userError ("no " ++ show n))) :: IO (Either IOException ())
  return (either (const 1) id a + either (const 2) id b + either (length . show) (const 0) c)

oneRound :: IO String
oneRound = do
  boxes <- forM [1 .. 8] $ \n -> do
    box <- newEmptyMVar
    _ <- forkIO (worker box (n * 100))
    return box
  sums <- mapM takeMVar boxes
  errors <- sum <$> mapM caught [1 .. 50]
  victim <- forkIO (forever (threadDelay 1000000))
  killThread victim
  performGC
  return (unwords [show (sum sums), show errors, show (deep 20000)])

main :: IO ()
main = do
  [count] <- getArgs
  hSetBuffering stdout LineBuffering
  let go n = do
        stop <- doesFileExist "stop"
        unless (n == (0 :: Int) || stop) $ oneRound >>= putStrLn >> go (n - 1)
  go (read count)
